"""What an authenticator refuses by default, and the store of users in memory."""

from __future__ import annotations

import pytest

from amqpforge.errors import LocalError
from amqpforge.sasl import Authenticator, Computed, ScramKeys, SystemFailure, UserStore, Work


def test_an_authenticator_lets_nobody_in_by_itself() -> None:
    nobody = Authenticator()
    assert nobody.scram_keys("SCRAM-SHA-1", "u") is None
    assert nobody.check_password("u", "p") is None
    assert nobody.check_token("t", "u") is None
    assert nobody.check_peer("u") is None
    assert not nobody.may_act_as("u", "v")
    assert not nobody.mechanisms


def test_a_user_can_be_added_changed_and_removed() -> None:
    users = UserStore(iterations=4096)
    assert users.check_password("u", "p") is None
    users.add("u", "p")
    assert users.check_password("u", "p") == "u"
    users.add("u", "q")
    assert users.check_password("u", "p") is None
    assert users.check_password("u", "q") == "u"
    users.remove("u")
    users.remove("u")
    assert users.check_password("u", "q") is None
    assert users.scram_keys("SCRAM-SHA-256", "u") is None


def test_passwords_are_salted_and_not_kept() -> None:
    users = UserStore({"a": "same", "b": "same"}, iterations=4096)
    first, second = (users.scram_keys("SCRAM-SHA-512", name) for name in "ab")
    assert isinstance(first, ScramKeys)
    assert isinstance(second, ScramKeys)
    assert first.salt != second.salt
    assert first.stored_key != second.stored_key
    assert first.iterations == 4096
    assert "same" not in repr(vars(users))


def test_keys_are_made_for_the_mechanisms_that_are_offered() -> None:
    users = UserStore({"u": "p"}, mechanisms=["SCRAM-SHA-1", "ANONYMOUS"], iterations=4096)
    assert users.mechanisms == ("SCRAM-SHA-1", "ANONYMOUS")
    assert users.scram_keys("SCRAM-SHA-1", "u") is not None
    assert users.scram_keys("SCRAM-SHA-512", "u") is None


@pytest.mark.parametrize(
    ("username", "password", "reason"),
    [("", "p", "user name is empty"), ("\x07", "p", "user name has"), ("u", "", "password is empty")],
)
def test_what_cannot_be_stored(username: str, password: str, reason: str) -> None:
    with pytest.raises(LocalError, match=reason):
        UserStore({username: password}, iterations=1)


def test_a_wrong_user_costs_as_much_as_a_wrong_password(monkeypatch: pytest.MonkeyPatch) -> None:
    users = UserStore({"u": "p"}, iterations=4096)
    derived: list[int] = []
    derive = ScramKeys.derive

    def counting(mechanism: str, password: str, *, salt: bytes | None, iterations: int) -> ScramKeys:
        derived.append(iterations)
        return derive(mechanism, password, salt=salt, iterations=iterations)

    monkeypatch.setattr(ScramKeys, "derive", counting)
    assert users.check_password("u", "x") is None
    assert users.check_password("nobody", "x") is None
    assert derived == [4096, 4096]


def test_an_error_of_the_application_is_a_failure_of_the_system() -> None:
    def broken() -> str:
        raise KeyError("secret")

    work = Work("the look-up", broken, str.upper)
    with pytest.raises(SystemFailure, match=r"^the look-up failed with KeyError$") as caught:
        work.resume(work.run())
    assert caught.value.is_temporary is None


def test_an_authenticator_can_say_how_its_system_failed() -> None:
    def away() -> str:
        raise SystemFailure("the directory is away", is_temporary=True)

    work = Work("the look-up", away, str.upper)
    with pytest.raises(SystemFailure, match="the directory is away") as caught:
        work.resume(work.run())
    assert caught.value.is_temporary


def test_a_result_goes_where_it_belongs() -> None:
    work = Work("x", lambda: "abc", str.upper)
    assert work.resume(Computed("given")) == "GIVEN"
    assert work.resume(work.run()) == "ABC"

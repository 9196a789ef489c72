"""Traces into Arrow."""

import pyarrow
import pytest
from pyarrow import compute

import hearth

MSR = "128166372003061629,web,0,Read,4096,8192,100\n128166372003071629,web,1,Write,0,512,200\n"


@pytest.fixture
def msr(tmp_path):
    path = tmp_path / "web.csv"
    path.write_text(MSR)
    return path


def test_a_trace_becomes_a_table_with_units_in_its_names(msr):
    trace = hearth.read_trace(msr)
    table = pyarrow.table(trace)
    assert (trace.format, trace.packing) == ("msr", "none")
    assert table.column_names == [
        "time_us",
        "vm",
        "volume",
        "op",
        "offset_bytes",
        "length_bytes",
        "response_us",
    ]
    first, second = table.to_pylist()
    assert second["time_us"] - first["time_us"] == 1000
    assert [first[name] for name in table.column_names[1:]] == ["web", "0", "read", 4096, 8192, 10]
    assert (second["volume"], second["op"], second["length_bytes"]) == ("1", "write", 512)


def test_a_stream_comes_in_batches_and_begins_anew(mix):
    trace = hearth.read_trace("gen:zipf,requests=200000,blocks=1000")
    with pyarrow.RecordBatchReader.from_stream(trace) as stream:
        first = stream.read_next_batch()
    assert 65536 <= len(first) < 200000
    assert pyarrow.table(trace).num_rows == 200000
    assert pyarrow.table(trace).schema == first.schema


def test_volumes_that_appear_late_keep_their_names(mix):
    vms = pyarrow.table(hearth.read_trace(mix))["vm"]
    counts = {row["values"]: row["counts"] for row in compute.value_counts(vms.cast("string")).to_pylist()}
    assert counts == {"web": 20000, "db": 5000}


def test_polars_and_duckdb_take_a_trace(mix):
    polars = pytest.importorskip("polars")
    duckdb = pytest.importorskip("duckdb")
    trace = hearth.read_trace(mix)
    frame = polars.DataFrame(trace)
    assert frame.height == 25000
    assert frame["length_bytes"].sum() == 25000 * 4096
    reader = pyarrow.RecordBatchReader.from_stream(trace)  # noqa: F841 (duckdb finds it by its name)
    rows = duckdb.sql("select vm, count(*) from reader group by vm order by vm").fetchall()
    assert rows == [("db", 5000), ("web", 20000)]


def test_a_trace_that_is_none_is_an_error_with_the_place_and_the_remedy(tmp_path, msr):
    with pytest.raises(FileNotFoundError, match="missing.csv.*check the path"):
        hearth.read_trace(tmp_path / "missing.csv")
    with pytest.raises(ValueError, match="nope"):
        hearth.read_trace(msr, format="nope")
    with pytest.raises(hearth.TraceError, match="no known format.*format=") as unknown:
        path = tmp_path / "noise"
        path.write_bytes(b"\x00\x07\x09 noise" * 9)
        hearth.read_trace(path)
    assert "--format" not in str(unknown.value)
    with pytest.raises(ValueError, match="power of two"):
        hearth.read_trace(msr, block="3KiB")


def test_a_fault_behind_the_beginning_names_its_line(tmp_path):
    path = tmp_path / "bad.csv"
    path.write_text(MSR + "128166372003071629,web,1,Write,zero,512,200\n")
    trace = hearth.read_trace(path, format="msr")
    with pytest.raises(pyarrow.ArrowInvalid, match="line 3.*zero"):
        pyarrow.table(trace)
    with pytest.raises(hearth.TraceError, match="line 3.*zero"):
        hearth.simulate(path, "lru", "10blk", format="msr")


def test_formats_are_listed():
    assert {"msr", "spc", "parquet"} <= set(hearth.formats())

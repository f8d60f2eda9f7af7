"""The test vectors of the specification: read with Intarsia, and made by a script that isn't it."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.registry import get_codec_class
from zarr.storage import LocalStore

from intarsia.codecs.assemble import decode_chunk
from intarsia.codecs.cases import CaseTable, canonical, case_json, case_key, encoding_of
from intarsia.codecs.cases_hdf5 import hdf5_filter
from intarsia.codecs.chunks import pack, unpack
from intarsia.errors import ChunkError
from tests.present import PIPELINES

ROOT = Path(__file__).resolve().parents[2]
VECTORS = ROOT / "spec" / "vectors"
ARRAYS = sorted(path.name for path in (VECTORS / "arrays").iterdir())
CASES = json.loads((VECTORS / "cases.json").read_text())
CHUNKS = json.loads((VECTORS / "chunks.json").read_text())


@pytest.mark.parametrize("page", ["cases", "switch", "window", "cf", "hdf5"])
def test_the_examples_of_the_pages_are_accepted(page: str) -> None:
    blocks = (ROOT / "spec" / f"{page}.md").read_text().split("```json")[1:]
    assert len(blocks) == 1
    example = json.loads(blocks[0].split("```")[0])
    if page == "cases":
        encoding_of(example)
    elif page == "hdf5":
        hdf5_filter(example["configuration"], np.dtype("<i4"))
    else:
        codec = get_codec_class(f"intarsia.{page}").from_dict(example)
        assert codec.to_dict() == example


def test_the_script_makes_these_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "make_vectors.py", tmp_path], check=True)
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    there = {str(path.relative_to(VECTORS)) for path in VECTORS.rglob("*") if path.is_file()}
    assert there - made == {"README.md", "reader.mjs"}
    assert not made - there
    for name in made:
        assert (tmp_path / name).read_bytes() == (VECTORS / name).read_bytes(), name


@pytest.mark.skipif(not shutil.which("node"), reason="no Node.js")
def test_a_reader_in_another_language_reads_them() -> None:
    command = ["node", VECTORS / "reader.mjs"]
    run = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.endswith(" 0 wrong\n")
    assert int(run.stdout.split()[0]) > 100


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.filterwarnings("ignore:Array is unsupported by ZarrsCodecPipeline")
def test_arrays(name: str, pipeline: str) -> None:
    folder = VECTORS / "arrays" / name
    with zarr.config.set({"codec_pipeline.path": pipeline}):
        array = zarr.open_array(LocalStore(folder, read_only=True), mode="r")
    values = np.frombuffer((folder / "values.raw").read_bytes(), array.dtype.newbyteorder("<"))
    values = values.reshape(array.shape)
    found = array[...]
    np.testing.assert_array_equal(found, values)
    if found.dtype.kind == "f":
        number = ~np.isnan(values)
        assert found[number].tobytes() == values[number].tobytes()
    for index in list(np.ndindex(*array.shape))[:: max(1, values.size // 5)]:
        np.testing.assert_array_equal(array[index], values[index])


@pytest.mark.parametrize("entry", CASES["accepted"], ids=lambda entry: entry["key"])
def test_cases(entry: dict[str, Any]) -> None:
    assert canonical(entry["case"]) == entry["canonical"]
    assert case_key(entry["case"]) == entry["key"]
    assert case_json(encoding_of(entry["case"])) == entry["case"]


@pytest.mark.parametrize("entry", CASES["refused"], ids=lambda entry: entry["why"])
def test_refused_cases(entry: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        encoding_of(entry["case"])


def _decoded(entry: dict[str, Any]) -> bytes:
    table = CaseTable.from_json(CHUNKS["cases"])
    data = memoryview(bytes.fromhex(entry["chunk"]))
    dtype = np.dtype(CHUNKS["data_type"])
    return decode_chunk(data, CHUNKS["shape"], table, dtype, CHUNKS["fill_value"]).tobytes()


@pytest.mark.parametrize("number", range(len(CHUNKS["accepted"])))
def test_chunks(number: int) -> None:
    entry = CHUNKS["accepted"][number]
    assert _decoded(entry).hex() == entry["values"]
    data, shape = bytes.fromhex(entry["chunk"]), CHUNKS["shape"]
    parts = unpack(data, shape, CaseTable.from_json(CHUNKS["cases"]), len(data))
    assert data.startswith(pack(parts, shape))


@pytest.mark.parametrize("entry", CHUNKS["refused"], ids=lambda entry: entry["why"])
def test_refused_chunks(entry: dict[str, Any]) -> None:
    with pytest.raises(ChunkError):
        _decoded(entry)


def test_damaged_chunks_are_errors_or_values() -> None:
    """Bits, numbers and lengths changed anywhere: never another error, nor much memory."""
    rng = random.Random(0)
    far = [1 << 62, (1 << 63) - 1, -(1 << 63), -1, 0, 1, 5, 1000, 1 << 31, 1 << 32]
    for name in ARRAYS:
        folder = VECTORS / "arrays" / name
        metadata = json.loads((folder / "zarr.json").read_text())
        codec = metadata["codecs"][0]
        if codec["name"] != "intarsia.switch":
            continue
        table = CaseTable.from_json(codec["configuration"]["cases"])
        shape = metadata["chunk_grid"]["configuration"]["chunk_shape"]
        dtype = table.encodings[0].dtype
        sound = next(path for path in (folder / "c").rglob("*") if path.is_file()).read_bytes()
        for _ in range(200):
            data = bytearray(sound)
            for _ in range(rng.randint(1, 3)):
                if rng.random() < 0.6:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                else:
                    at = 16 + 8 * rng.randrange((len(data) - 16) // 8)
                    data[at : at + 8] = (rng.choice(far) & (1 << 64) - 1).to_bytes(8, "little")
            if rng.random() < 0.1:
                del data[rng.randrange(len(data)) :]
            with contextlib.suppress(ChunkError):
                decode_chunk(memoryview(bytes(data)), shape, table, dtype, dtype.type())

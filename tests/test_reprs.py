"""What virtual arrays say of themselves, as text and as HTML."""

from __future__ import annotations

import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import xarray as xr

from intarsia.array import VirtualArray
from intarsia.array.describing import MAX_BARS, bars, describe, encoding_text
from intarsia.encoding import Codec, Encoding
from intarsia.io.fetch import observe
from tests.algebra import lay_out


class Checked(HTMLParser):
    """Every tag is closed, in order; nothing runs."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("script", "iframe", "img", "link")
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def pieces(tmp_path: Path, count: int = 4) -> list[VirtualArray]:
    made = []
    for number in range(count):
        values = np.arange(24, dtype="<i2" if number % 2 else ">i2").reshape(6, 4)
        path = tmp_path / f"part<{number}>.bin"
        made.append(lay_out(path, values, (2, 4), zlevel=1 if number % 2 else None)[0])
    return made


def test_text(tmp_path: Path) -> None:
    parts = [*pieces(tmp_path), VirtualArray.full((6, 4), 3, "i2")]
    whole = np.concatenate(parts).with_notes("a remark", "x" * 300)
    with observe() as reads:
        text = repr(whole)
    assert reads.requests == 0
    assert text.splitlines() == [
        "VirtualArray: 30 × 4 int16, 240 B once loaded",
        f"  5 segments of 4 sources: {tmp_path}/part<0>.bin … part<3>.bin",
        f"  13 chunks, {whole.segments.nbytes} B of references, "
        f"{whole.segments.nbytes / 13:.3g} bytes each",
        "  2 segments: int16 (big-endian)",
        "  2 segments: zlib → int16",
        "  1 segment: never written, fill",
        "  note: a remark",
        f"  note: {'x' * 100} …",
    ]
    assert repr(VirtualArray.full((), 1, "f4")).startswith("VirtualArray: 0-d float32, 4 B")
    assert "no source" in repr(VirtualArray.full((2,), 1, "f4"))
    assert "of 1 source:" in repr(whole[:3])


def test_what_is_not_used_is_not_told(tmp_path: Path) -> None:
    whole = np.concatenate(pieces(tmp_path))
    found = describe(whole[6:9].segments)
    assert (found.segments, found.sources, len(found.cases)) == (1, 1, 1)
    assert found.chunks == 2
    assert found.first == f"{tmp_path}/part<1>.bin"


def test_html(tmp_path: Path) -> None:
    whole = np.concatenate(pieces(tmp_path)).with_notes("<b>bold</b>")
    with observe() as reads:
        page = Checked(whole._repr_html_())
    assert reads.requests == 0
    text = " ".join(page.text)
    assert "4 segments" in text
    assert "zlib → int16" in text
    assert "<b>bold</b>" in text
    assert "part<0>.bin [0:6]" in text
    assert page.tags.count("rect") == 4
    assert "svg" not in Checked(whole[:3]._repr_html_()).tags
    dataset = xr.Dataset({"x": (("t", "y"), whole)})
    assert "4 segments" in dataset._repr_html_()
    assert whole._repr_html_() in dataset.x._repr_html_()


def test_mosaics_are_drawn_as_maps(tmp_path: Path) -> None:
    a, b, c, d = pieces(tmp_path)
    mosaic = np.vstack([np.hstack([a, b]), np.hstack([c, d])])
    across, down, drawn = bars(mosaic.segments)
    assert (across, down) == (1, 0)
    assert sorted((bar.x, bar.y, bar.width, bar.height) for bar in drawn) == [
        (0.0, 0.0, 0.5, 0.5),
        (0.0, 0.5, 0.5, 0.5),
        (0.5, 0.0, 0.5, 0.5),
        (0.5, 0.5, 0.5, 0.5),
    ]
    assert {bar.case for bar in drawn} == {0, 1}


def test_many_segments_stay_short_and_quick(tmp_path: Path) -> None:
    whole = np.concatenate(pieces(tmp_path))
    many = whole[np.random.default_rng(0).integers(0, 24, 50_000)]
    start = time.process_time()
    html, text = many._repr_html_(), repr(many)
    assert time.process_time() - start < 2
    assert len(html) < 60_000
    assert len(text.splitlines()) < 20
    assert Checked(html).tags.count("rect") == MAX_BARS


def test_ways_from_bytes_to_values() -> None:
    scale = Codec.make("scale", dtype="<f4", scale=True, offset=True)
    mask = Codec.make("mask", dtype="<f4", fills=2, value="nan")
    filters = (Codec.make("shuffle", elementsize=2), Codec.make("zlib"), Codec.make("fletcher32"))
    assert encoding_text(Encoding(filters, np.dtype(">i2"), (mask, scale))) == (
        "fletcher32 → zlib → shuffle → int16 (big-endian) → mask 2 values → scale + offset → "
        "float32"
    )
    hdf5 = Codec.make("hdf5", pipeline=((4, 0, (1, 2), "szip"),), datatype="", chunk_shape=(1,))
    assert encoding_text(Encoding((hdf5,), np.dtype("f8"))) == "szip (by HDF5) → float64"
    cast = Encoding((), np.dtype("i2")).cast(np.dtype("f8"))
    assert encoding_text(cast) == "int16 → float64"
    refused = Codec.make("unsupported", reason="a filter is missing", remedy="")
    assert "can't be read: a filter" in encoding_text(Encoding((refused,), np.dtype("f4")))

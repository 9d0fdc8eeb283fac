"""Columns of images: conversions, and datasets of them, also of the reference."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import lance
import lance.arrow as reference
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

import lance_core
from lance_core.api.arrow import (
    EncodedImageArray,
    EncodedImageType,
    FixedShapeImageTensorArray,
    FixedShapeImageTensorType,
    ImageArray,
    ImageURIArray,
    ImageURIType,
)
from lance_core.errors import InvalidInputError, StorageError
from support.oracles.own_types import own_types_registered

PIXEL = [42, 42, 42, 255]
NEEDS_PILLOW = "the default codec is pillow, which is no requirement"


@pytest.fixture(autouse=True)
def own_types() -> Iterator[None]:
    yield from own_types_registered()


def png(pixel: list[int]) -> bytes:
    """Return a PNG of one pixel, encoded by hand."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 1, 1, 8, 6, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(b"\0" + bytes(pixel))),
            chunk(b"IEND", b""),
        ]
    )


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.png"
    path.write_bytes(png(PIXEL))
    return path


def test_addresses(image: Path) -> None:
    for uris in ([str(image)], (image,), pa.array([str(image)]), pa.array([str(image)], pa.large_string())):
        array = ImageURIArray.from_uris(uris)
        assert isinstance(array, ImageURIArray)
        assert array.to_pylist() == [str(image)]
        assert ImageArray.from_array(array) is array
        assert ImageArray.from_array(uris) == array
    assert ImageURIArray.from_uris(["a", None]).to_pylist() == ["a", None]
    assert ImageURIArray.from_uris([None])[0].as_py() is None
    assert repr(array).startswith("<lance.arrow.ImageURIArray object at 0x")


@pytest.mark.parametrize("storage_type", [pa.binary(), pa.large_binary()], ids=str)
def test_reading_files(image: Path, storage_type: pa.DataType) -> None:
    array = ImageURIArray.from_uris([str(image), None, image.as_uri()]).read_uris(storage_type)
    assert isinstance(array, EncodedImageArray)
    assert array.type == EncodedImageType(storage_type)
    assert array.to_pylist() == [png(PIXEL), None, png(PIXEL)]
    assert ImageArray.from_array(array.storage) == array


def test_reading_the_web(image: Path) -> None:
    """The reference prints a failed request and makes it a null."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(image.parent))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            root = f"http://127.0.0.1:{server.server_port}"
            assert ImageURIArray.from_uris([f"{root}/image.png"]).read_uris().to_pylist() == [png(PIXEL)]
            with pytest.raises(StorageError, match=r"none\.png"):
                ImageURIArray.from_uris([f"{root}/none.png"]).read_uris()
        finally:
            server.shutdown()
            thread.join()


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_images_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"none\.png"):
        ImageURIArray.from_uris([tmp_path / "none.png"]).read_uris()
    with pytest.raises(InvalidInputError, match="absolute path"):
        ImageURIArray.from_uris(["relative/image.png"]).read_uris()


def tensors(count: int = 3) -> FixedShapeImageTensorArray:
    pixels = np.arange(count * 2 * 1 * 4, dtype=np.uint8).reshape(count, 2, 1, 4)
    found = ImageArray.from_array(pa.FixedShapeTensorArray.from_numpy_ndarray(pixels))
    assert isinstance(found, FixedShapeImageTensorArray)
    return found


def test_pixels() -> None:
    array = tensors()
    assert array.type.shape == [2, 1, 4]
    assert array.to_numpy().shape == (3, 2, 1, 4)
    assert array.slice(1, 1).to_numpy().ravel().tolist() == list(range(8, 16)) == array[1].as_py()
    encoded = array.to_encoded(
        lambda images: pa.array([image.tobytes() for image in images]), pa.large_binary()
    )
    assert encoded.type == EncodedImageType(pa.large_binary())
    assert encoded[2].as_py() == bytes(range(16, 24))

    def decoder(images: pa.Array) -> npt.NDArray[np.uint8]:
        return np.frombuffer(b"".join(images.to_pylist()), np.uint8).reshape(-1, 2, 1, 4)

    assert encoded.to_tensor(decoder) == array
    assert (
        encoded.to_tensor(lambda images: pa.FixedShapeTensorArray.from_numpy_ndarray(decoder(images)))
        == array
    )


def test_pillow(image: Path) -> None:
    pytest.importorskip("PIL", reason=NEEDS_PILLOW)
    array = ImageURIArray.from_uris([image] * 3).read_uris()
    pixels = array.to_tensor()
    assert pixels[2].as_py() == PIXEL
    assert pixels.type == FixedShapeImageTensorType(pa.uint8(), [1, 1, 4])
    assert pixels.to_encoded().to_tensor() == pixels
    assert "size=1x1" in repr(array)
    assert repr(png(PIXEL)[:30]) in repr(array)
    with pytest.raises(ValueError, match="same shape"):
        pa.ExtensionArray.from_storage(
            array.type, pa.array([png(PIXEL), tensors(1).to_encoded()[0].as_py()])
        ).to_tensor()


def test_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)  # Python's own way to make an import fail
    array = ImageArray.from_array(pa.array([png(PIXEL)]))
    with pytest.raises(InvalidInputError, match="install pillow, or pass 'decoder'"):
        array.to_tensor()
    with pytest.raises(InvalidInputError, match="install pillow, or pass 'encoder'"):
        tensors().to_encoded()
    assert repr(png(PIXEL)[:30]) in repr(array)


@pytest.mark.parametrize("images", [[], [None]])
def test_no_images_have_no_pixels(images: list[None]) -> None:
    array = ImageArray.from_array(pa.array(images, pa.binary()))
    with pytest.raises(InvalidInputError, match="needs images"):
        array.to_tensor()
    assert f"{len(images)} images" in repr(array)


def test_values_that_are_no_images() -> None:
    with pytest.raises(TypeError, match="int"):
        ImageArray.from_array(5)
    with pytest.raises(TypeError, match="int"):
        ImageURIArray.from_uris(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="string type"):
        ImageURIType(pa.int8())
    with pytest.raises(InvalidInputError, match="binary type"):
        EncodedImageType(pa.string())
    with pytest.raises(InvalidInputError, match="at least one dimension"):
        FixedShapeImageTensorType(pa.uint8(), ())


def columns() -> pa.Table:
    uris = ImageURIArray.from_uris(["a", None, "c"])
    encoded = ImageArray.from_array(pa.array([b"1", b"", None], pa.large_binary()))
    return pa.table({"uri": uris, "encoded": encoded, "pixels": tensors()})


def test_columns_of_datasets(tmp_path: Path) -> None:
    table = columns()
    dataset = lance_core.write_dataset(table, tmp_path / "ours")
    assert dataset.schema == table.schema
    assert dataset.to_table() == table
    assert dataset.take([2, 0]) == table.take([2, 0])
    assert isinstance(dataset.to_table()["pixels"].chunk(0), FixedShapeImageTensorArray)
    lance.write_dataset(table, tmp_path / "theirs")
    assert lance_core.dataset(tmp_path / "theirs").to_table() == table
    assert lance.dataset(tmp_path / "ours").to_table() == table


def test_arrays_are_pickled() -> None:
    for column in columns():
        assert pickle.loads(pickle.dumps(column.chunk(0))) == column.chunk(0)


@pytest.mark.parametrize(
    ("name", "metadata"),
    [
        ("lance.arrow.image_uri", ""),
        ("lance.arrow.encoded_image", ""),
        ("lance.arrow.fixed_shape_image_tensor", "{"),
        ("lance.arrow.fixed_shape_image_tensor", '{"shape": [2, 2]}'),
    ],
)
def test_names_that_do_not_fit_their_storage_types(tmp_path: Path, name: str, metadata: str) -> None:
    """A column of another writer is then read as its storage type."""
    field = pa.field(
        "x",
        pa.list_(pa.uint8(), 3),
        metadata={"ARROW:extension:name": name, "ARROW:extension:metadata": metadata},
    )
    table = pa.table([pa.array([[1, 2, 3]], field.type)], schema=pa.schema([field]))
    assert lance_core.write_dataset(table, tmp_path).to_table()["x"].to_pylist() == [[1, 2, 3]]


def test_types_equal_those_of_the_reference_as_stored() -> None:
    pairs = (
        (ImageURIType(), reference.ImageURIType()),
        (EncodedImageType(), reference.EncodedImageType()),
        (
            FixedShapeImageTensorType(pa.uint8(), (2, 3)),
            reference.FixedShapeImageTensorType(pa.uint8(), (2, 3)),
        ),
    )
    for ours, theirs in pairs:
        assert ours.extension_name == theirs.extension_name
        assert ours.storage_type == theirs.storage_type
        assert ours.__arrow_ext_serialize__() == theirs.__arrow_ext_serialize__()


def test_the_types_are_registered_by_the_import(tmp_path: Path) -> None:
    """A process without the reference has our classes, after the import of the module and not before."""
    lance_core.write_dataset(columns(), tmp_path)
    code = (
        "import lance_core\n"
        f"dataset = lance_core.dataset({str(tmp_path)!r})\n"
        "print(dataset.schema.field('uri').type)\n"
        "import lance_core.api.arrow\n"
        f"print(lance_core.dataset({str(tmp_path)!r}).to_table()['uri'].type)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["string", "extension<lance.arrow.image_uri<ImageURIType>>"]

"""Columns of images: addresses of images, encoded images, and pixels.

    ImageURIArray               addresses of files and of pages on the web
    EncodedImageArray           bytes of PNG, JPEG, ... files; the bytes tell which
    FixedShapeImageTensorArray  pixels of images of the same shape

`read_uris`, `to_tensor` and `to_encoded` convert them. Decoding and encoding need the package `pillow`, or a
function of the caller.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lance_core.errors import InvalidInputError, StorageError
from lance_core.pool import map_ahead

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = [
    "EncodedImageArray",
    "EncodedImageScalar",
    "EncodedImageType",
    "FixedShapeImageTensorArray",
    "FixedShapeImageTensorScalar",
    "FixedShapeImageTensorType",
    "ImageArray",
    "ImageScalar",
    "ImageURIArray",
    "ImageURIScalar",
    "ImageURIType",
]

_STRING, _BINARY = pa.string(), pa.binary()

_SHOWN_BYTES = 30
"""Bytes that the text of an array of encoded images shows of the first image."""


class ImageURIType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Type of a column of addresses of images, stored as strings."""

    def __init__(self, storage_type: pa.DataType = _STRING) -> None:
        if not (pa.types.is_string(storage_type) or pa.types.is_large_string(storage_type)):
            raise InvalidInputError("storage_type must be a string type", found=storage_type)
        super().__init__(storage_type, "lance.arrow.image_uri")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ImageURIType:
        return cast(ImageURIType, _deserialized(lambda: cls(storage_type)))

    def __arrow_ext_class__(self) -> type[ImageURIArray]:
        return ImageURIArray

    def __arrow_ext_scalar_class__(self) -> type[ImageURIScalar]:
        return ImageURIScalar


class EncodedImageType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Type of a column of encoded images, stored as bytes."""

    def __init__(self, storage_type: pa.DataType = _BINARY) -> None:
        if not (pa.types.is_binary(storage_type) or pa.types.is_large_binary(storage_type)):
            raise InvalidInputError("storage_type must be a binary type", found=storage_type)
        super().__init__(storage_type, "lance.arrow.encoded_image")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> EncodedImageType:
        return cast(EncodedImageType, _deserialized(lambda: cls(storage_type)))

    def __arrow_ext_class__(self) -> type[EncodedImageArray]:
        return EncodedImageArray

    def __arrow_ext_scalar_class__(self) -> type[EncodedImageScalar]:
        return EncodedImageScalar


class FixedShapeImageTensorType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no types
    """Type of a column of pixels, stored as fixed-size lists.

    Attributes:
        arrow_type: Type of a number.
        shape: Dimensions of each image, such as height, width, channels.
    """

    def __init__(self, arrow_type: pa.DataType, shape: Sequence[int]) -> None:
        if not len(shape):
            raise InvalidInputError("shape", expected="at least one dimension", found=shape)
        self.arrow_type = arrow_type
        self.shape = shape
        storage = pa.list_(arrow_type, int(np.prod(shape)))
        super().__init__(storage, "lance.arrow.fixed_shape_image_tensor")

    def __arrow_ext_serialize__(self) -> bytes:
        return json.dumps({"shape": list(self.shape)}).encode()

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> FixedShapeImageTensorType:
        found = _deserialized(lambda: cls(storage_type.value_type, json.loads(serialized)["shape"]))
        if found.storage_type.list_size != storage_type.list_size:
            raise pa.ArrowInvalid(f"images of the shape {found.shape} are not stored as {storage_type}")
        return cast(FixedShapeImageTensorType, found)

    def __arrow_ext_class__(self) -> type[FixedShapeImageTensorArray]:
        return FixedShapeImageTensorArray

    def __arrow_ext_scalar_class__(self) -> type[FixedShapeImageTensorScalar]:
        return FixedShapeImageTensorScalar


class ImageScalar(pa.ExtensionScalar):  # type: ignore[misc]  # pyarrow has no types
    """One image of an `ImageArray`."""


class ImageURIScalar(ImageScalar):
    """The address of an image."""


class EncodedImageScalar(ImageScalar):
    """The bytes of an image."""


class FixedShapeImageTensorScalar(ImageScalar):
    """The pixels of an image."""


class ImageArray(pa.ExtensionArray):  # type: ignore[misc]  # pyarrow has no types
    """Array of images of one of the three kinds."""

    def __repr__(self) -> str:
        return f"<lance.arrow.{type(self).__name__} object at 0x{id(self):016x}>\n{self._shown()}"

    def _shown(self) -> str:
        return repr(self.to_pylist())

    @classmethod
    def from_array(cls, images: Any) -> ImageArray:
        """Return an array of images over existing values.

        Args:
            images: An array of strings or an iterable of them becomes an `ImageURIArray`, an array of bytes
                an `EncodedImageArray`, and a `pyarrow.FixedShapeTensorArray` a `FixedShapeImageTensorArray`.
                An array of images is returned as it is.

        Raises:
            TypeError: None of these.
        """
        match images:
            case ImageArray():
                return images
            case pa.BinaryArray() | pa.LargeBinaryArray():
                return cast(ImageArray, _from_storage(EncodedImageType(images.type), images))
            case pa.FixedShapeTensorArray():
                return _tensors(images)
            case Iterable():
                return ImageURIArray.from_uris(images)
        raise TypeError(f"cannot build an ImageArray from {type(images)}")


class ImageURIArray(ImageArray):
    """Array of addresses of images: paths, or URIs of local files, of object stores and of the web."""

    @classmethod
    def from_uris(cls, uris: pa.Array | Iterable[str | Path | None]) -> ImageURIArray:
        """Return an array of addresses. None is a null.

        Raises:
            TypeError: `uris` is not iterable.
        """
        if not isinstance(uris, pa.StringArray | pa.LargeStringArray):
            if not isinstance(uris, Iterable):
                raise TypeError(f"cannot build an ImageURIArray from {type(uris)}")
            uris = pa.array([None if uri is None else str(uri) for uri in uris], pa.string())
        return cast(ImageURIArray, _from_storage(ImageURIType(uris.type), uris))

    def read_uris(self, storage_type: pa.DataType = _BINARY) -> EncodedImageArray:
        """Read the images. Some are read at the same time. A null stays null.

        Args:
            storage_type: `pyarrow.large_binary()` for more than 2 GiB of images.

        Raises:
            InvalidInputError: An address is neither a URI nor an absolute path.
            StorageError: An image cannot be read.
        """
        images = map_ahead(_read, self.storage.to_pylist(), is_remote=True)
        storage = pa.array(images, storage_type)
        return cast(EncodedImageArray, _from_storage(EncodedImageType(storage_type), storage))


class EncodedImageArray(ImageArray):
    """Array of encoded images, each in any format that tells itself from others."""

    def _shown(self) -> str:
        first = self[0].as_py() if len(self) else None
        if first is None:
            return f"{len(self)} images"
        try:
            described = f"[{_decoded(first)!r}, ..]\n"
        except (ImportError, OSError):  # no pillow, or no image
            described = ""
        return described + repr(first[:_SHOWN_BYTES])

    def to_tensor(
        self, decoder: Callable[[pa.Array], npt.NDArray[Any] | pa.FixedShapeTensorArray] | None = None
    ) -> FixedShapeImageTensorArray:
        """Decode all images, which must have the same shape.

        Args:
            decoder: Function from the array of bytes to an array of pixels, whose first dimension counts the
                images. Without it, `pillow` decodes.

        Raises:
            InvalidInputError: There is no decoder, no image, or a null.
            ValueError: The images differ in their shapes.
        """
        if decoder is None:
            if not len(self) or self.null_count:
                raise InvalidInputError(
                    "an array of pixels needs images",
                    expected="one image or more, and no null",
                    found=f"{len(self)} images, {self.null_count} of them null",
                )
            _check_pillow("decoder")
            decoder = _decode
        pixels = decoder(self.storage)
        if not isinstance(pixels, pa.FixedShapeTensorArray):
            pixels = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(pixels))
        return _tensors(pixels)


class FixedShapeImageTensorArray(ImageArray):
    """Array of the pixels of images of the same shape."""

    def to_numpy(self, zero_copy_only: bool = True) -> npt.NDArray[Any]:
        """Return the pixels; the first dimension counts the images."""
        tensor = pa.fixed_shape_tensor(self.type.arrow_type, list(self.type.shape))
        pixels: npt.NDArray[Any] = _from_storage(tensor, self.storage).to_numpy_ndarray()
        return pixels

    def to_encoded(
        self,
        encoder: Callable[[npt.NDArray[Any]], pa.Array] | None = None,
        storage_type: pa.DataType = _BINARY,
    ) -> EncodedImageArray:
        """Encode all images.

        Args:
            encoder: Function from the pixels of all images to an array of bytes. Without it, `pillow`
                encodes PNG.
            storage_type: `pyarrow.large_binary()` for more than 2 GiB of images.

        Raises:
            InvalidInputError: There is no encoder.
        """
        if encoder is None:
            _check_pillow("encoder")
            encoder = _encode
        encoded = pa.array(encoder(self.to_numpy()), storage_type)
        return cast(EncodedImageArray, _from_storage(EncodedImageType(storage_type), encoded))


def _from_storage(extension_type: pa.DataType, storage: pa.Array) -> Any:
    return pa.ExtensionArray.from_storage(extension_type, storage)


def _tensors(pixels: pa.FixedShapeTensorArray) -> FixedShapeImageTensorArray:
    kind = FixedShapeImageTensorType(pixels.type.value_type, pixels.type.shape)
    return cast(FixedShapeImageTensorArray, _from_storage(kind, pixels.storage))


def _deserialized(make: Callable[[], pa.ExtensionType]) -> Any:
    """Return the type, or raise the error that lets readers keep the storage type of a damaged column."""
    try:
        return make()
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise pa.ArrowInvalid(str(error)) from error


def _read(uri: str | None) -> bytes | None:
    """Return the bytes at an address."""
    if uri is None:
        return None
    try:
        if urlsplit(uri).scheme in ("http", "https"):
            from urllib.request import urlopen  # late: imports all of HTTP

            with urlopen(uri) as page:
                return cast(bytes, page.read())
        from pyarrow.fs import FileSystem

        store, path = FileSystem.from_uri(uri)
        with store.open_input_stream(path) as file:
            return cast(bytes, file.read())
    except OSError as error:
        raise StorageError(f"cannot read the image: {error}", file=uri) from error
    except ValueError as error:
        raise InvalidInputError(
            "address of an image", expected="a URI or an absolute path", found=uri
        ) from error


def _check_pillow(argument: str) -> None:
    try:
        import PIL  # noqa: F401
    except ImportError:
        raise InvalidInputError(f"no image {argument}: install pillow, or pass {argument!r}") from None


def _decoded(image: bytes) -> Image:
    from PIL import Image

    return Image.open(io.BytesIO(image))


def _decode(images: pa.Array) -> npt.NDArray[Any]:
    return np.stack([np.asarray(_decoded(image)) for image in images.to_pylist()])


def _encode(images: npt.NDArray[Any]) -> list[bytes]:
    from PIL import Image

    encoded = []
    for pixels in images:
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, format="PNG")
        encoded.append(buffer.getvalue())
    return encoded

"""What a vision-language model takes besides token ids: pixels, grid sizes and positions, made by its own processor.

Records hold the tokens that a model sees and, beside them, the images (`agents.images`). Where sequences are compared,
shared and cached, ids alone would not tell two images of the same size apart. There the tokens that a vision tower
fills have *codes* in place of their ids, negative numbers made of the image's digest and the token's place in it;
`ImageInputs.resolve` turns them into what the model's forward takes. A token of this kind that a policy has sampled
stands for no image and has no code: it is fed as an ordinary one.

Legend: B sequences, L tokens of the longest.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import inspect
import io
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from agents.images import PlacedImage

_PLACES = 1 << 17  # most tokens of one image
_TEXT_KEYS = {"input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids"}  # of a processor's output
MOST_PIXEL_BYTES, MOST_IMAGE_BYTES = 2**28, 2**30  # of what is kept of images that were entry


class ImagesRefused(ValueError):
    """The model's images cannot be computed here; its texts can."""


class _Entry(NamedTuple):
    """What a processor makes of one image: its tokens, the arrays for the vision tower, and two facts.

    `slots` are the indices of the tokens that the vision tower fills. `shift` is by how much the positions of later
    tokens differ from their indices.
    """

    ids: tuple[int, ...]
    arrays: dict[str, np.ndarray]
    slots: np.ndarray
    shift: int

    @property
    def size(self) -> int:
        """Bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())


class ImageInputs:
    """The images of one vision-language model's prompts. Shared by renderer, sampler and learner, in any thread.

    Attributes:
        processor: The model's Hugging Face processor.
        placeholder: The control token that its chat template writes for an image.
        token: The id of the token that the vision tower fills.
        stand_in: The id of the token that a model is fed with where a policy has sampled `token`.

    """

    def __init__(self, processor: Any, model: Any) -> None:
        """Take the processor of `model`.

        Raises `ValueError` if the config names no image token.
        """
        self.processor = processor
        token = getattr(model.config, "image_token_id", None) or getattr(model.config, "image_token_index", None)
        if token is None:
            raise ValueError(f"model type {model.config.model_type!r}: its config names no image token")
        self.token: int = token
        self.placeholder: str = getattr(processor, "boi_token", None) or str(processor.image_token)
        blocks = model.base_model
        self._rope_index = getattr(blocks, "get_rope_index", None)
        rope_names = inspect.signature(self._rope_index).parameters if self._rope_index else {}
        self._rope_takes_types = "mm_token_type_ids" in rope_names
        self._takes_types = "mm_token_type_ids" in inspect.signature(type(blocks).forward).parameters
        tokenizer = processor.tokenizer
        ordinary = (tokenizer.pad_token_id, tokenizer.eos_token_id, 0, 1)
        self.stand_in = next(id for id in ordinary if id is not None and id != self.token)
        self._forget()

    def __deepcopy__(self, memo: dict[int, Any]) -> ImageInputs:
        """Copies of a model share its images."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process has images of its own."""
        own = ("_lock", "_entries", "_by_digest", "_bytes", "_image_bytes")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See `__getstate__`."""
        self.__dict__.update(state)
        self._forget()

    def _forget(self) -> None:
        """Begin without images."""
        self._lock = Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the latest used last
        self._by_digest: OrderedDict[int, str] = OrderedDict()  # digest -> image
        self._bytes = self._image_bytes = 0

    @property
    def has_positions(self) -> bool:
        """Whether positions are not the indices of tokens: an image has rows and columns of them."""
        return self._rope_index is not None

    def expand(self, image: str) -> tuple[int, ...]:
        """Return the tokens that stand for an image. Raises `ValueError` for one that cannot be read."""
        return self._look(image).ids

    def code(self, ids: Sequence[int], images: Iterable[PlacedImage]) -> tuple[int, ...]:
        """Return `ids` with codes for the tokens that the vision tower fills.

        Raises `ValueError` if other tokens stand where an image should be.
        """
        codes = list(ids)
        for at, image in images:
            entry = self._look(image)
            if tuple(codes[at : at + len(entry.ids)]) != entry.ids:
                raise ValueError(f"the tokens from index {at} on are not those of the image that belongs there")
            first = self._register(image) * _PLACES
            for place, index in enumerate(entry.slots.tolist()):
                codes[at + index] = -1 - (first + place)
        return tuple(codes)

    def start_of_image(self, coded: Sequence[int], index: int) -> int:
        """Return where the image begins that would be cut at `index`; `index` itself where none would be.

        A forward pass computes whole images: one that is cut is computed again.
        """
        codes = np.asarray(coded, np.int64)
        following = codes[index:][codes[index:] < 0]
        if not len(following) or _place_of(int(following[0])) == 0:
            return index
        return int(np.flatnonzero(_begins(codes[:index]))[-1])

    def shift_before(self, coded: np.ndarray) -> int:
        """Return by how much positions after the tokens `coded` (L,) differ from their indices."""
        return sum(self._by_code(code).shift for code in coded[_begins(coded)].tolist())

    def resolve(self, coded: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the ids (B, L) that the model's forward takes for `coded` ones, and its arguments for their images."""
        codes = coded.cpu().numpy()
        slots = codes < 0
        ids = np.where(slots, self.token, np.where(codes == self.token, self.stand_in, codes))
        more: dict[str, Tensor] = {}
        if slots.any():
            images = [self._by_code(code) for code in codes[_begins(codes)].tolist()]
            more = {name: torch.as_tensor(array, device=coded.device) for name, array in _join(images).items()}
            if self._takes_types:
                more["mm_token_type_ids"] = torch.as_tensor(slots.astype(np.int64), device=coded.device)
        return torch.as_tensor(ids, device=coded.device), more

    def of_parts(self, coded: np.ndarray, valid: np.ndarray, first: np.ndarray, device: Any) -> dict[str, Tensor]:
        """Return the arguments of a forward pass over parts of sequences: ids, positions, and what belongs to images.

        Args:
            coded: The tokens (B, L); no image is cut by the border of a part.
            valid: False (B, L) for padding on the right.
            first: The position (B, 1) of each part's first token.
            device: Where the tensors go.

        """
        tensor = torch.as_tensor(np.where(valid, coded, self.stand_in), device=device)
        ids, more = self.resolve(tensor)
        index = torch.arange(ids.shape[1], device=device).expand(ids.shape)
        begin = torch.as_tensor(first, device=device)
        grids = {name: value for name, value in more.items() if name.endswith("_grid_thw")}
        if self._rope_index is not None and grids:
            types = {"mm_token_type_ids": (tensor < 0).long()} if self._rope_takes_types else {}
            index, _ = self._rope_index(ids, **types, **grids)
        return {"input_ids": ids, "position_ids": index + begin, **more}

    def pictures(self, coded: Sequence[int]) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """Return a prompt as other engines take it: one placeholder for each image, and the images beside it."""
        codes, prompt, images = np.asarray(coded, np.int64), list[int](), list[str]()
        placeholder, index = self.processor.tokenizer.convert_tokens_to_ids(self.placeholder), 0
        starts: dict[int, int] = {}  # where the tokens of an image begin -> the code of its first slot
        for at in np.flatnonzero(_begins(codes)).tolist():
            starts[at - int(self._by_code(int(codes[at])).slots[0])] = int(codes[at])
        while index < len(codes):
            if index in starts:
                prompt.append(placeholder)
                images.append(self._by_digest[_digest_of(starts[index])])
                index += len(self._by_code(starts[index]).ids)
            else:
                prompt.append(self.stand_in if codes[index] == self.token else int(codes[index]))
                index += 1
        return tuple(prompt), tuple(images)

    def _look(self, image: str) -> _Entry:
        with self._lock:
            if image in self._entries:
                self._entries.move_to_end(image)
                return self._entries[image]
        entry = self._process(image)
        with self._lock:
            if image not in self._entries:
                self._entries[image] = entry
                self._bytes += entry.size
            while self._bytes > MOST_PIXEL_BYTES and len(self._entries) > 1:
                self._bytes -= self._entries.popitem(last=False)[1].size
        return entry

    def _process(self, image: str) -> _Entry:
        picture = read_image(image)
        try:
            out = self.processor(
                text=[self.placeholder], images=[picture], return_tensors="np", add_special_tokens=False
            )
        except Exception as error:
            raise ValueError(f"the model's processor refuses an image of {picture.size} pixels: {error}") from error
        ids = tuple(int(id) for id in out["input_ids"][0])
        arrays = {name: np.asarray(array) for name, array in out.items() if name not in _TEXT_KEYS}
        if not self._takes_types and np.any(out.get("token_type_ids", 0)):
            raise ImagesRefused("in this model tokens of an image see each other; here each sees those before it only")
        slots = np.flatnonzero(np.asarray(ids) == self.token)
        if not len(slots):
            raise ValueError(f"the model's processor has no token {self.token} for an image of {picture.size} pixels")
        entry = _Entry(ids, arrays, slots, 0)
        return entry._replace(shift=self._shift(entry)) if self.has_positions else entry

    def _shift(self, entry: _Entry) -> int:
        types = torch.as_tensor([[int(id == self.token) for id in entry.ids]])
        grids = {k: torch.as_tensor(v) for k, v in entry.arrays.items() if k.endswith("_grid_thw")}
        keywords = {"mm_token_type_ids": types} if self._rope_takes_types else {}
        positions, _ = self._rope_index(torch.as_tensor([entry.ids]), **keywords, **grids)  # type: ignore[misc]
        return int(positions.max()) + 1 - len(entry.ids)

    def _register(self, image: str) -> int:
        """Remember an image by its digest, of 45 bits, so that its codes can be resolved."""
        digest = int.from_bytes(hashlib.blake2b(image.encode(), digest_size=8).digest(), "big") >> 19
        with self._lock:
            if digest not in self._by_digest:
                self._image_bytes += len(image)
            self._by_digest[digest] = image
            self._by_digest.move_to_end(digest)
            while self._image_bytes > MOST_IMAGE_BYTES and len(self._by_digest) > 1:
                self._image_bytes -= len(self._by_digest.popitem(last=False)[1])
        return digest

    def _by_code(self, code: int) -> _Entry:
        image = self._by_digest.get(_digest_of(code))
        if image is None:
            raise RuntimeError(f"over {MOST_IMAGE_BYTES >> 20} MiB of images are in use at a time")
        return self._look(image)


def attach_images(model: Any, processor: Any) -> None:
    """Give a vision-language model the inputs that its processor makes; copies of the model share them."""
    model.image_inputs = ImageInputs(processor, model)


def image_inputs(model: Any) -> ImageInputs | None:
    """Return what makes the inputs of a vision-language model; None for a model that reads text only."""
    return getattr(model, "image_inputs", None)


def read_image(image: str) -> Any:
    """Return the PIL image of a `data:` URL, upright and in RGB.

    Raises `ValueError` if it is no such URL or cannot be read.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    head, _, data = image.partition(",")
    if not head.startswith("data:image/") or not head.endswith(";base64"):
        raise ValueError(f"an image block holds {image[:40]!r}, not a data URL such as data:image/png;base64,...")
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(data, validate=True)))
        return ImageOps.exif_transpose(picture).convert("RGB")  # vLLM would turn it by itself, hf would not
    except (binascii.Error, UnidentifiedImageError, OSError, ValueError) as error:
        raise ValueError(f"an image cannot be read: {error}") from error


def _digest_of(code: int) -> int:
    return (-1 - code) // _PLACES


def _place_of(code: int) -> int:
    return (-1 - code) % _PLACES


def _begins(coded: np.ndarray) -> np.ndarray:
    """Where images begin: the first token of each that the vision tower fills."""
    return (coded < 0) & ((-1 - coded) % _PLACES == 0)


def _join(images: Sequence[_Entry]) -> dict[str, np.ndarray]:
    """The arrays of several images as the model takes them.

    A processor gives pixels either with the number of images as the first dimension, or (1, images, C, H, W) for one
    text. The parts of the latter are padded to the largest.
    """
    axis = 1 if images[0].arrays["pixel_values"].ndim == 5 else 0
    arrays = {}
    for name in images[0].arrays:
        parts = [image.arrays[name] for image in images]
        if axis:
            shape = np.max([part.shape[2:] for part in parts], axis=0)
            parts = [
                np.pad(p, [(0, 0), (0, 0), *((0, int(m) - n) for m, n in zip(shape, p.shape[2:], strict=True))])
                for p in parts
            ]
        arrays[name] = np.concatenate(parts, axis=axis)
    return arrays

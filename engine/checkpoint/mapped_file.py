"""One model file, mapped read-only into memory.

Owns the mapping. Knows nothing of what the bytes mean.
"""

from __future__ import annotations

import mmap
from pathlib import Path

from engine.base.errors import ModelFileError


class MappedFile:
    """The bytes of one file as a memoryview; raises ModelFileError where there are none to map."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            raise ModelFileError(f"{path} is empty: every byte of the model is missing") from None
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error.strerror}") from None
        self.view = memoryview(self._mapping)

    @property
    def size(self) -> int:
        return len(self._mapping)

    def close(self) -> None:
        """Unmap. While a slice of `view` is still in use elsewhere, the last one to go unmaps instead."""
        try:
            self.view.release()
            self._mapping.close()
        except BufferError:
            return

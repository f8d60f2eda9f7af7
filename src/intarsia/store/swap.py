"""Putting a new store in its place at once: what was there before, or the new one, never a mixture.

A store is written beside its place under a name of its own. A new one is then renamed; one that
takes the place of another is exchanged with it by the system in one step (Linux, macOS), where the
system can, and by two renames otherwise. Whatever ends the writer, the old store stays whole.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import sys
from collections.abc import Generator
from contextlib import contextmanager

from intarsia.errors import StoreError, StoreExists
from intarsia.store.objects import FolderWriter, Writer, ZipWriter, is_store

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2  # linux/fs.h
_RENAME_SWAP = 2  # sys/stdio.h of macOS


@contextmanager
def replacing(path: str, *, overwrite: bool) -> Generator[Writer]:
    """Write a store that appears at `path` when the block ends, and not at all if it raises.

    Parameters
    ----------
    path
        Absolute path; a zip file where it ends in ``.zip``, else a folder.
    overwrite
        Whether a store that is there already is replaced.

    Raises
    ------
    StoreExists
        If something is there that is not to be replaced: a store, or what is no store.
    StoreError
        If it can't be written.
    """
    check_place(path, overwrite=overwrite)
    zipped = path.endswith(".zip")
    path = os.path.realpath(path)  # a link stays one
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{secrets.token_hex(6)}.tmp")
    try:
        writer = ZipWriter(beside) if zipped else FolderWriter(beside)
        try:
            yield writer
        finally:
            writer.close()
        if zipped:
            _put_file(beside, path, overwrite=overwrite)
        else:
            _put_folder(beside, path, overwrite=overwrite)
    except OSError as error:
        if isinstance(error, StoreError) or not error.errno:
            raise
        raise StoreError(f"can't be written: {error.strerror}", url=path) from error
    finally:
        _remove(beside)


def check_place(path: str, *, overwrite: bool) -> None:
    """Refuse a place where a store can't be put.

    Raises
    ------
    StoreExists
        If something is there that is not to be replaced.
    StoreError
        If the folder it is to be in does not exist.
    """
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise StoreError("the folder does not exist", url=folder, remedy="make it first")
    if not os.path.lexists(path) or _is_empty(path):
        return
    if not is_store(path):
        raise StoreExists(
            "there is something that is no store", url=path, remedy="choose another path"
        )
    if not overwrite:
        raise StoreExists("the store exists", url=path, remedy="pass mode='w' to replace it")


def _is_empty(path: str) -> bool:
    try:
        return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)
    except OSError as error:
        raise StoreError(f"the folder can't be listed: {error.strerror}", url=path) from error


def _put_file(new: str, path: str, *, overwrite: bool) -> None:
    if overwrite:
        os.replace(new, path)
        return
    try:
        os.link(new, path)  # fails where something is there, unlike a rename
    except FileExistsError as error:
        raise StoreExists("the store was made meanwhile", url=path) from error
    except OSError:  # a file system without links
        check_place(path, overwrite=False)
        os.replace(new, path)


def _put_folder(new: str, path: str, *, overwrite: bool) -> None:
    try:
        os.rename(new, path)  # also onto an empty folder
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    if not overwrite:
        raise StoreExists("the store was made meanwhile", url=path)
    if not _exchange(new, path):
        aside = f"{new}.old"
        os.rename(path, aside)
        try:
            os.rename(new, path)
        except BaseException:
            os.rename(aside, path)
            raise
        _remove(aside)


def _exchange(one: str, other: str) -> bool:
    """Give each of two paths what the other names, in one step; False where the system can't."""
    name = {"linux": "renameat2", "darwin": "renamex_np"}.get(sys.platform)
    if name is None:
        return False
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return False
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin":
        failed = function(first, second, ctypes.c_uint(_RENAME_SWAP))
    else:
        failed = function(_AT_FDCWD, first, _AT_FDCWD, second, ctypes.c_uint(_RENAME_EXCHANGE))
    return not failed


def _remove(path: str) -> None:
    """Remove what was written beside, or what was there before; what can't be is left."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            os.unlink(path)

"""Messages of the library in the command's words: ``--join outer`` for ``join='outer'``."""

from __future__ import annotations

import os
import re

OPTIONS = (
    "align",
    "combine",
    "combine_attrs",
    "compat",
    "concat_dim",
    "coords",
    "data_vars",
    "drop_variables",
    "group",
    "join",
    "max_copied",
    "on_conflict",
    "on_error",
    "phony_dims",
    "tolerance",
    "unsupported",
)
"""Arguments of Python that are options of the command, too."""

SWITCHES = {
    "mask_and_scale=False": "--no-mask-and-scale",
    "decode_times=False": "--no-decode-times",
    "use_cftime=True": "--use-cftime",
    "mode='w'": "--overwrite",
    "by_label=False": "--no-labels",
}

_PIN = re.compile(r"containers=\{'?([\w.-]+)'?: \{'pin': '(\w+)'\}\}")
_BOTH = re.compile(r"containers=\{'([\w.-]+)': \{'location': \.\.\., 'storage_options': \.\.\.\}\}")
_STORAGE = re.compile(r"storage_options=\{'(\w+)': \.\.\.\}")
_PLACE = re.compile(r"containers=\{'?([\w.-]+)'?: place\}")

_OPTION = re.compile(rf"\b({'|'.join(OPTIONS)})=(?:'(\w+)')?")


def in_words(text: str) -> str:
    """Write arguments in a message as options of the command, and paths as seen from here.

    Examples
    --------
    >>> in_words("pass align='flip' to turn it round, or use drop_variables=")
    'pass --align flip to turn it round, or use --drop-variables'
    """
    text = text.replace(os.getcwd().rstrip(os.sep) + os.sep, "")
    for argument, switch in SWITCHES.items():
        text = text.replace(argument, switch)
    text = _BOTH.sub(r"--container \1=PLACE, with --storage-option", text)
    text = _STORAGE.sub(r"--storage-option \1=...", text)
    text = _PLACE.sub(r"--container \1=PLACE", _PIN.sub(r"--pin \1=\2", text))
    return _OPTION.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name, value = match.groups()
    option = f"--{name.replace('_', '-')}"
    return f"{option} {value}" if value else option

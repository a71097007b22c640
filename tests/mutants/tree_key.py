"""What results belong to: the commit, and if the tree differs from it, how."""

from __future__ import annotations

import hashlib
import subprocess

from tests.tree import ROOT, files


def tree_key() -> str:
    commit = _git("rev-parse", "--short=9", "HEAD").strip()
    if not _git("status", "--porcelain"):
        return commit
    digest = hashlib.sha256()
    for name in files():
        if not (ROOT / name).is_symlink():
            digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes() + b"\0")
    return f"{commit}+{digest.hexdigest()[:9]}"


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout

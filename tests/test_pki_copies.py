"""What an authority hands out is in files of their own."""

import os
from pathlib import Path

from cloister.protocol.pki.private_files import copy, write


def test_a_copy_is_no_second_name_of_the_same_file(tmp_path: Path) -> None:
    """Before: `cp public/revoked.cbor parties/client-2/` failed, "are the same file"."""
    write(tmp_path / "one", b"old")
    for content in (b"first", b"second"):
        write(tmp_path / "one", content, force=True)
        copy(tmp_path / "one", tmp_path / "two")
        assert (tmp_path / "two").read_bytes() == content
        assert not os.path.samefile(tmp_path / "one", tmp_path / "two")
        assert (tmp_path / "two").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]

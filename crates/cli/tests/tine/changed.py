"""Which changed bytes of a file the real opentine lets pass: changed.py FILE [PUBLIC KEY].

Prints a line for each: the byte's place, and what it was changed to.
"""

import sys
from pathlib import Path

from opentine import _codec
from opentine._artifact_io import MAX_TINE_ARTIFACT_BYTES, parse_artifact_json
from opentine._graph_serde import run_from_dict, verify_integrity
from opentine.core import Run
from opentine.signing import verify_artifact

source = Path(sys.argv[1]).read_bytes()
public = sys.argv[2] if len(sys.argv) > 2 else None


def passes(file):
    try:
        data = parse_artifact_json(_codec.unwrap(file, limit=MAX_TINE_ARTIFACT_BYTES))
        run_from_dict(data, Run)
        signed = public is None or verify_artifact(data, public_key=public).ok
        return verify_integrity(data).ok and signed
    except Exception:
        return False


assert passes(source), "the file itself"
for at, byte in enumerate(source):
    for changed in {byte ^ (1 << at % 8), byte ^ 0x20, 0x20} - {byte}:
        if passes(source[:at] + bytes([changed]) + source[at + 1 :]):
            print(at, changed)

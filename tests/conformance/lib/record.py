"""What the reference did (recorded/<release>.json) and what each implementation is expected to do
(expected/<release>.toml).
"""

import hashlib
import json
import pathlib
import tomllib

from lib import release

FOLDER = pathlib.Path(__file__).resolve().parents[1]
RECORD = FOLDER / f"recorded/{release.name()}.json"
EXPECTED = FOLDER / f"expected/{release.name()}.toml"
PROVE = "prove it: ./dev conformance --reference"


class Expectations:
    """Expected values that differ by implementation: one table per test file, one sub-table per
    value.
    """

    def __init__(self, path=EXPECTED):
        self._tables = tomllib.loads(path.read_text())
        for name, table in self._tables.items():
            for key, entry in table.items():
                missing = {"reference", "ours", "reason"} - entry.keys()
                assert not missing, f"{path.name}: [{name}.{key}] lacks {sorted(missing)}"

    def value(self, test_file, key, impl):
        return self._tables[test_file][key][impl]

    def reference_values(self, test_file):
        return {key: entry["reference"] for key, entry in self._tables.get(test_file, {}).items()}


def digest(test_path, expectations):
    """Digest of what a record proves: the test file and the values that it expects of the
    reference.
    """
    known = json.dumps(expectations.reference_values(test_path.stem), sort_keys=True)
    return hashlib.sha256(test_path.read_bytes() + known.encode()).hexdigest()[:16]


class Records:
    """The recorded reference runs, by test id."""

    def __init__(self, path=RECORD):
        self.path = path
        self.entries = json.loads(path.read_text()) if path.exists() else {}

    def problem(self, test_id, file_digest, wheel):
        """Why this test isn't proven, or None."""
        entry = self.entries.get(test_id)
        if entry is None:
            return f"the reference has no recorded pass of {test_id}; {PROVE}"
        if entry["digest"] != file_digest:
            return f"the test file has changed since the reference passed {test_id}; {PROVE}"
        if entry["wheel"] != wheel:
            return f"{test_id} was proven with {entry['wheel']}, this is {wheel}; {PROVE}"
        return None

    def observed(self, test_id, key):
        return self.entries[test_id]["observed"].get(key)

    def update(self, passed, existing_ids):
        """Merges passed tests in and drops tests that no longer exist (`existing_ids` None: keep
        all).
        """
        merged = self.entries | passed
        if existing_ids is not None:
            merged = {
                test_id: entry for test_id, entry in merged.items() if test_id in existing_ids
            }
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_text(json.dumps(dict(sorted(merged.items())), indent=1) + "\n")

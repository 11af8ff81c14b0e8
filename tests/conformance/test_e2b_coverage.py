"""No public method of the official E2B packages is forgotten, and the scripts use them as declared."""
import shutil
import subprocess

import pytest

from e2b_coverage import SCRIPTS, compiler, missing
from e2b_releases import RELEASES, WHOLE, excused


@pytest.mark.parametrize("release", [each for each in RELEASES if WHOLE or each.quick], ids=str)
def test_every_method_is_tried(release):
    left = missing(release, excused(release.language))
    assert not left, "no check is about: " + ", ".join(left)


def test_scripts_keep_to_the_types(tmp_path):
    """What the newest package declares is how the scripts call it."""
    newest, typescript = RELEASES[0], compiler()
    shutil.copytree(SCRIPTS / "javascript", tmp_path, dirs_exist_ok=True)
    (tmp_path / "node_modules").symlink_to(newest.installed() / "node_modules")
    # Only the packages' own types are of interest.
    (tmp_path / "node.d.ts").write_text(
        'declare module "node:*";\ndeclare const process: any, Buffer: any;\n')
    scripts = sorted(str(each) for each in tmp_path.glob("*.*ts")) + \
        sorted(str(each) for each in tmp_path.glob("*.mjs"))
    done = subprocess.run(
        ["node", typescript / "node_modules" / "typescript" / "bin" / "tsc", "--noEmit", "--allowJs",
         "--checkJs", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--lib",
         "es2022,dom,dom.iterable,dom.asynciterable", *scripts],
        capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout

"""Build the image of the server on a machine without a container engine: `make image`.

`python scripts/build_image.py [--archive FILE]` makes a base image with debootstrap, fetches the packages
with this machine's pip, and builds `docker/Dockerfile` with buildah. The script
installs missing tools with apt-get. It runs as root: debootstrap and buildah change the root directory. The
base and the packages stay in `build/image`, and the next build uses them again. With an archive, the image is
also written to a file for `docker load`.
"""

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "image"
WHEELS = BUILD / "wheels"
DOCKERFILE = ROOT / "docker" / "Dockerfile"
IMAGE = "localhost/lance-flight"
BASE = "localhost/lance-flight-base"
SUITE = "trixie"
PYTHON = "3.13"
"""The Python of the suite, which the packages are fetched for."""
TOOLS = ("buildah", "debootstrap")
TOOLS_OF_TESTS = ("nginx",)
NO_TOOLS = 3
"""Exit code where this machine cannot build images, or cannot reach what a build needs."""
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/cache/apt", "var/lib/apt/lists")
"""Folders of a new Debian that its slim images empty."""
BUILDAH = ("buildah", "--root", f"{BUILD}/store", "--runroot", f"{BUILD}/run", "--storage-driver", "vfs")


def run(*command: str | Path) -> None:
    """Run a command; its output goes to stderr. Raises CalledProcessError."""
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=sys.stderr)


def buildah(*arguments: str | Path) -> str:
    """Run buildah in the store of this repository, and return what it prints. Raises CalledProcessError."""
    done = subprocess.run([*BUILDAH, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def install_tools(*tools: str) -> None:
    """Install the Debian packages whose programs are missing. Raises SystemExit where that is impossible."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    command = f"apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        stop("only root can build the image without a container engine")
    if missing and shutil.which("apt-get") is None:
        stop(f"the tools {' and '.join(missing)} are missing; Debian and Ubuntu have them: {command}")
    if missing:
        run("apt-get", "update", "-qq")
        run(*command.split(), "--yes", "-qq", "--no-install-recommends")


def stop(reason: str) -> None:
    """End the program with a sentence and the exit code of a machine that cannot build images."""
    print(f"error: {reason}", file=sys.stderr)
    raise SystemExit(NO_TOOLS)


def debian_mirror() -> list[str]:
    """Return where this machine's apt finds Debian; nothing leaves the choice to debootstrap."""
    form = ("--format", "$(REPO_URI) $(ORIGIN) $(LABEL)")
    done = subprocess.run(["apt-get", "indextargets", *form], check=True, capture_output=True, text=True)
    found = re.search(r"^(\S+) Debian Debian$", done.stdout, re.MULTILINE)
    return [found[1]] if found else []


def make_base() -> None:
    """Make an image of a minimal Debian, unless there is one."""
    if buildah("images", "--quiet", "--filter", f"reference={BASE}"):
        return
    system = BUILD / "base"
    shutil.rmtree(system, ignore_errors=True)
    run("debootstrap", "--variant=minbase", SUITE, system, *debian_mirror())
    for folder in UNUSED:
        shutil.rmtree(system / folder)
        (system / folder).mkdir()
    container = buildah("from", "scratch")
    buildah("add", "--quiet", container, system, "/")
    buildah("commit", "--quiet", "--rm", container, BASE)
    shutil.rmtree(system)


def fetch_packages() -> None:
    """Fetch what the build installs, as this machine's pip is set up; what is there already stays."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE.read_text(encoding="utf-8"), re.MULTILINE)[0]
    needed = [*project["build-system"]["requires"], "cmake", "ninja", *project["project"]["dependencies"]]
    for extra in extras.split(","):
        needed += project["project"]["optional-dependencies"][extra]
    target = ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}"]
    for tag in ("manylinux_2_28", "manylinux_2_17", "manylinux2014"):
        target.append(f"--platform={tag}_{platform.machine()}")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    run(*pip, "download", "--dest", WHEELS, "--find-links", WHEELS, *target, *needed)


def build() -> None:
    """Build the image from the base and the packages."""
    arguments = ["--build-arg", f"BASE={BASE}", "--build-arg", "PIP_NO_INDEX=1"]
    arguments += ["--build-context", f"wheels={WHEELS}"]
    # The format of Docker: OCI's has no health check.
    options = ("--isolation", "chroot", "--format", "docker", "--tag", IMAGE)
    run(*BUILDAH, "bud", *options, *arguments, "--file", DOCKERFILE, ROOT)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--archive", type=Path, help="write the image to this file, for `docker load`")
    parser.add_argument("--print", action="store_true", help="print buildah's command and the image")
    parser.add_argument("--prepare", action="store_true", help="fetch what a build needs, and no more")
    arguments = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        install_tools(*TOOLS, *(TOOLS_OF_TESTS if arguments.prepare else ()))
        make_base()
        fetch_packages()
    except subprocess.CalledProcessError as error:
        stop(f"the base or the packages of the image cannot be fetched: {error}")
    if arguments.prepare:
        return
    build()
    if arguments.archive:
        arguments.archive.parent.mkdir(exist_ok=True)
        arguments.archive.unlink(missing_ok=True)
        buildah("push", "--quiet", IMAGE, f"docker-archive:{arguments.archive}:lance-flight:latest")
    if arguments.print:
        print(*BUILDAH, IMAGE)


if __name__ == "__main__":
    main()

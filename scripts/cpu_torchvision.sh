#!/bin/sh
# Makes PyPI's torchvision load beside a torch for CPUs, in the virtual environment that is named.
# It is linked against CUDA; what processors of images need of it, resizing, is written in Python.
set -eu
venv=$1

loads() {
    "$venv/bin/python" -W ignore -c 'import torchvision' >/dev/null 2>&1
}

loads && exit 0
packages=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat >"$packages/_cpu_torchvision.py" <<'PYTHON'
"""Declares the operators that torchvision's registrations name, before it is imported."""

import sys

kept = []  # The operators are gone with the object that declared them.


class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torchvision" and not kept:
            kept.append(None)
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            kept[0] = library
        return None


sys.meta_path.insert(0, Finder())
PYTHON
echo "import _cpu_torchvision" >"$packages/_cpu_torchvision.pth"
loads || { echo "cpu_torchvision: torchvision does not load beside this torch." >&2; exit 1; }

"""Keeps this project's tests out of webtraj's own run: some of them fail on purpose."""

collect_ignore_glob = ["*"]

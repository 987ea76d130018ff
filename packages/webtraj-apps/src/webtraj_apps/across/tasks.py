"""Tasks over two applications."""

from webtraj_apps.across import between, from_mail

__all__ = ["between", "from_mail"]

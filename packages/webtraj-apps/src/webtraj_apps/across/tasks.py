"""Tasks over two or three applications."""

from webtraj_apps.across import between, from_mail, three

__all__ = ["between", "from_mail", "three"]

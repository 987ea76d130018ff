"""Tasks over two or three applications."""

"""Tasks over two applications."""

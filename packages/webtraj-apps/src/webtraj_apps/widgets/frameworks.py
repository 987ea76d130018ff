"""Small applications in frameworks, and their component libraries."""

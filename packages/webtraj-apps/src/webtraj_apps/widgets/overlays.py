"""Menus, dialogs, messages and carousels."""

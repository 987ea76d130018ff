"""The shop's task templates, by the part of the shop they are about."""

"""Agents: what decides on actions. The protocol is in `base`; agents know no environment class."""

"""Model clients: how an agent asks a model. The protocol and its messages are in `base`."""

"""The Protobuf schema of episodes, compiled.

`webtraj/v1/trajectory.proto` is the schema, `webtraj/v1/trajectory_pb2.py` what
`scripts/compile_proto.py` makes of it.
"""

"""How it is done: files, text, replies, memory, stores, transfer.

No ability and no surface is named here.
"""

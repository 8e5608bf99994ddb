"""Bytes, integers and rings: key derivation, keystreams, signatures, sealing, secret transforms. No torch, no I/O, no clock."""

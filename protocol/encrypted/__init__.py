"""Sums and inner products of CKKS ciphertexts, and the view `Encrypted`. Spec: specs/encrypted.md."""

"""Parameters of CKKS, and how many bytes keys and ciphertexts have at most under them."""

from dataclasses import dataclass

_SLACK_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CkksParameters:
    """degree: of the ring; half of it are the values in one ciphertext. modulus_bits: sizes of its primes, the last one for
    key switching. scale_bits: fixed-point bits of a value. The library refuses what is below 128 bits of security.
    """

    degree: int
    modulus_bits: tuple[int, ...]
    scale_bits: int

    @property
    def slots(self) -> int:
        return self.degree // 2

    @property
    def multiplies(self) -> bool:
        """Whether inner products can be computed: a level to spend, and a last prime that keeps key switching exact.

        With a last prime below the others the noise of key switching is of the order of the result, without a warning.
        """
        return len(self.modulus_bits) > 2 and self.modulus_bits[-1] >= max(self.modulus_bits)

    @property
    def product_limit(self) -> float:
        """Inner products reach at most this magnitude before they wrap round."""
        return float(2.0 ** (self.modulus_bits[0] - self.scale_bits - 1))

    @property
    def _polynomial_bytes(self) -> int:
        return self.degree * 8

    @property
    def ciphertext_bytes(self) -> int:
        """An upper bound on the bytes of one ciphertext."""
        return 2 * (len(self.modulus_bits) - 1) * self._polynomial_bytes + _SLACK_BYTES

    @property
    def context_bytes(self) -> int:
        """An upper bound on the bytes of a public context: its public key and its keys for products."""
        levels = len(self.modulus_bits)
        switching_key = 2 * levels * (levels - 1) * self._polynomial_bytes
        switching_keys = 2 * self.degree.bit_length() if self.multiplies else 0
        return (switching_keys * switching_key) + self.encrypting_bytes

    @property
    def encrypting_bytes(self) -> int:
        """An upper bound on the bytes of a public key alone."""
        return 2 * len(self.modulus_bits) * self._polynomial_bytes + 4 * _SLACK_BYTES

    @property
    def secret_bytes(self) -> int:
        """An upper bound on the bytes of a secret key with its public key."""
        return 2 * self.encrypting_bytes

"""The most memory that this process held since it was last asked to forget: on Linux alone, through /proc/self."""

from pathlib import Path

OWN = Path("/proc/self")
RESET_PEAK = "5"
"""What /proc/PID/clear_refs takes to set the peak back to what is held now (proc(5))."""


def forget_peak() -> bool:
    """Set the peak back to what is held now. False where that is not possible: a peak would be of the whole process's life."""
    try:
        (OWN / "clear_refs").write_text(RESET_PEAK)
    except OSError:
        return False
    return True


def peak_mb() -> float | None:
    """The peak in MB, 10^6 bytes, everything that the process holds counted; None where the system does not say."""
    try:
        lines = (OWN / "status").read_text().splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("VmHWM:")]
    return int(found[0][1]) * 1024 / 1e6 if found else None

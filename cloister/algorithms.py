"""Methods of clustered federated learning and their baselines: what a `Scenario`'s `algorithm` may be."""

import typing as _typing

from .fl.algorithms.cfl import CFL, Absolute, ScaleFree
from .fl.algorithms.cfl_gp import CFLGP
from .fl.algorithms.emd_cfl import EMDCFL
from .fl.algorithms.fed_clust import FedClust
from .fl.algorithms.fedavg import FedAvg, FedProx, Local, Oracle
from .fl.algorithms.fedce import FedCE
from .fl.algorithms.fedem import FedEM
from .fl.algorithms.fedrc import FedRC
from .fl.algorithms.fedsac import FedSaC
from .fl.algorithms.fedsoft import FedSoft
from .fl.algorithms.fesem import FeSEM
from .fl.algorithms.fl_detector import FLDetector
from .fl.algorithms.flex_cfl import FlexCFL
from .fl.algorithms.flic import FLIC
from .fl.algorithms.fpfc import FPFC
from .fl.algorithms.fpfc import l1 as fpfc_l1
from .fl.algorithms.hardened_flic import HardenedFLIC
from .fl.algorithms.ifca import IFCA
from .fl.algorithms.pacfl import PACFL
from .fl.algorithms.per_fedavg import PerFedAvg
from .fl.algorithms.pfed_graph import PFedGraph
from .fl.algorithms.private_cfl import PrivateCFL
from .fl.algorithms.private_emd_cfl import private_emd_cfl
from .fl.algorithms.robust_fedavg import RobustFedAvg
from .told_in_python import told as _told

__all__ = [
    "CFL",
    "CFLGP",
    "EMDCFL",
    "FLIC",
    "FPFC",
    "IFCA",
    "PACFL",
    "Absolute",
    "FLDetector",
    "FeSEM",
    "FedAvg",
    "FedCE",
    "FedClust",
    "FedEM",
    "FedProx",
    "FedRC",
    "FedSaC",
    "FedSoft",
    "FlexCFL",
    "HardenedFLIC",
    "Local",
    "Oracle",
    "PFedGraph",
    "PerFedAvg",
    "PrivateCFL",
    "RobustFedAvg",
    "ScaleFree",
    "fpfc_l1",
    "private_emd_cfl",
]

if not _typing.TYPE_CHECKING:  # a type checker sees the names above, and no others
    __getattr__ = _told(globals())

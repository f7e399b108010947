"""What every process of the trial imports, once, in the server that they are forked from; no program is begun here."""

import os
import pathlib
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(pathlib.Path.home() / ".cache" / "jaxvrp-tests"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
warnings.filterwarnings("ignore", message="os.fork", category=RuntimeWarning)
warnings.filterwarnings("ignore", category=DeprecationWarning)

import threading  # noqa: E402

import matplotlib  # noqa: E402
import tqdm  # noqa: E402

matplotlib.use("Agg")
# Its default is a semaphore of the system, which a killed process leaves behind.
tqdm.tqdm.set_lock(threading.RLock())

import jaxvrp.registry  # noqa: E402, F401
import tests.toy_environments  # noqa: E402, F401
from train import evaluate, ippo, mappo, replay, sac, td3  # noqa: E402, F401
from train.commands import launch  # noqa: E402, F401
from train.off_policy import trainer as _off_policy  # noqa: E402, F401
from train.on_policy import trainer as _on_policy  # noqa: E402, F401
from train.run import checkpoint  # noqa: E402, F401

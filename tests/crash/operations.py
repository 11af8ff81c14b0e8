"""All operations of the crash tests, and what a broken answer looks like to a client."""
import json

from harness.client import ApiError
from operation import NotDone
from operations_background import (ExpiryPauses, ExpiryDeletes, ExpiryOfSnapshot, CellDies,
                                   Restart, RestartOfApi, BuildTemplate, DeleteTemplate)
from operations_disks import (Snapshot, SnapshotOfPaused, Restore, RestoreRunning, Fork,
                              ForkPaused, ForkOnePaused, DeleteSnapshot)
from operations_network import (ClaimWithNetwork, CreateCredential, DeleteCredential,
                                RotateCredential, SetNetwork)
from operations_sandboxes import (Claim, ClaimMany, ClaimSnapshot, Pause, PauseWithoutMemory,
                                  PauseToDisk, PauseAgainWithoutMemory, Resume, ResumeFromDisk,
                                  ResumeByUse, Delete, DeletePaused, Update)
from operations_volumes import (CreateVolume, ForkVolume, SnapshotVolume, RestoreVolume,
                                DeleteVolume, DeleteVolumeSnapshot, ForkWithVolume)

OPERATIONS = [Claim, ClaimMany, ClaimSnapshot, Pause, PauseWithoutMemory, PauseToDisk,
              PauseAgainWithoutMemory, Resume, ResumeFromDisk, ResumeByUse, Snapshot,
              SnapshotOfPaused, Restore, RestoreRunning, Fork, ForkPaused, ForkOnePaused, Delete, DeletePaused,
              DeleteSnapshot, Update, ExpiryPauses, ExpiryDeletes, ExpiryOfSnapshot, CellDies,
              Restart, RestartOfApi, BuildTemplate, DeleteTemplate, CreateVolume, ForkVolume,
              SnapshotVolume, RestoreVolume, DeleteVolume, DeleteVolumeSnapshot, ForkWithVolume,
              ClaimWithNetwork, SetNetwork, CreateCredential, RotateCredential, DeleteCredential]
NOT_ACKNOWLEDGED = (ApiError, NotDone, OSError, json.JSONDecodeError)

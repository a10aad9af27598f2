"""Names of modules that usually are not the project's own."""

from __future__ import annotations

import sys

#: Modules of the standard library: only the folder of the script that runs comes before them.
STANDARD = frozenset(sys.stdlib_module_names)
#: Packages that programs of this kind have installed.
INSTALLED = frozenset(
    "accelerate albumentations apex cv2 dask datasets deepspeed diffusers einops evaluate fire flask gym "
    "gymnasium h5py hydra imageio jax keras kornia librosa lightning matplotlib ml_collections mmcv mmengine nltk "
    "numba numpy omegaconf onnx onnxruntime openai pandas peft PIL psutil pytest pytorch_lightning ray requests "
    "safetensors scipy seaborn sentencepiece skimage sklearn spacy tensorboard tensorboardX tensorflow timm "
    "tokenizers torch torch_geometric torch_xla torchaudio torchdata torchmetrics torchtext torchvision tqdm "
    "transformers triton trl wandb xformers yacs yaml".split()
)
#: Packages that many projects have: their names do not tell whose they are.
COMMON = frozenset(
    "agents algo algorithms api apps common config configs core criterion data dataset datasets engine engines eval "
    "evaluation examples experiments layers lib libs loss losses metrics model modeling models module modules net nets "
    "network networks nn ops optim optimizers runner scripts solver src test tests tools train trainer trainers "
    "training transforms util utils".split()
)
#: Folders of code that is copied from elsewhere.
VENDORED = frozenset("3rdparty extern external thirdparty third_party vendor vendored _vendor".split())

# Cloister, for runs, coordinators and clients: keys, data and journals stay outside, in volumes.
#   podman build -t cloister .          (or docker)
#   podman run --rm -v "$PWD:/state" cloister run scenario.py
# TORCH_INDEX: where pip finds torch; by default the builds without CUDA. Empty: PyPI's, which take gigabytes more.
FROM python:3.12-slim
ARG TORCH_INDEX="https://download.pytorch.org/whl/cpu"
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir torch==2.13.0 ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} \
    && pip install --no-cache-dir -c constraints.txt ".[deploy]" \
    && useradd --create-home --uid 1000 cloister \
    && install -d -o cloister -m 0700 /state
WORKDIR /state
USER cloister
ENV OMP_NUM_THREADS=1
ENTRYPOINT ["cloister"]

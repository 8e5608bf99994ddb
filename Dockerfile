# Cloister, for runs, coordinators and clients: keys, data and journals stay outside, in volumes.
#   podman build -t cloister .          (or docker)
#   podman run --rm -v "$PWD:/state" cloister run scenario.py
# --build-arg TORCH_INDEX=...: the index of torch's builds without CUDA, which are gigabytes smaller.
FROM python:3.12-slim
ARG TORCH_INDEX=""
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

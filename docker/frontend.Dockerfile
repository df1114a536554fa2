# The real Dynamo frontend from its wheel, without the packages that serving does not import.
FROM debian:bookworm-slim
ARG DYNAMO_VERSION=1.3.0.post1
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates python3 python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/dynamo \
    && /opt/dynamo/bin/pip install --no-cache-dir "ai-dynamo-runtime==${DYNAMO_VERSION}" \
    && /opt/dynamo/bin/pip install --no-cache-dir --no-deps "ai-dynamo==${DYNAMO_VERSION}"
# The frontend keeps model files under $HOME/.cache.
ENV HOME=/tmp HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
USER 65534:65534
EXPOSE 8000
ENTRYPOINT ["/opt/dynamo/bin/python", "-m", "dynamo.frontend"]

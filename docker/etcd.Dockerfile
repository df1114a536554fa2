FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends etcd-server etcd-client && rm -rf /var/lib/apt/lists/*
ENV ETCDCTL_API=3
USER 65534:65534
EXPOSE 2379
ENTRYPOINT ["/usr/bin/etcd"]

FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends nats-server && rm -rf /var/lib/apt/lists/*
USER 65534:65534
EXPOSE 4222 8222
ENTRYPOINT ["/usr/sbin/nats-server"]
CMD ["-m", "8222"]

# Builds the image of the venue from a base, pinned by digest, and one archive of inputs that is byte-identical for every clone
# of a commit (`bun run image-inputs`). The build runs no command, so it needs no network and is deterministic.
#
# BASE_IMAGE has no default: pass a base with glibc and libgcc by digest, such as gcr.io/distroless/cc-debian12@sha256:..., and
# publish the digest.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
ADD dist/image/inputs.tar /
ENV NODE_ENV=production HOME=/tmp BUN_RUNTIME_TRANSPILER_CACHE_PATH=0 DO_NOT_TRACK=1 MIMALLOC_PURGE_HOLES_MIN_INTERVAL=1000
WORKDIR /app
USER 10001:10001
EXPOSE 8443 8444
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/bun", "/app/server/main.ts"]

# The image of the venue: a base by digest, and one archive of inputs that every clone of a commit builds to equal bytes
# (`bun run image-inputs`). Nothing runs during the build, so it needs no network and leaves nothing to chance.
#
# BASE_IMAGE has no default: name a base with glibc and libgcc by digest, such as
# gcr.io/distroless/cc-debian12@sha256:..., and publish which.
ARG BASE_IMAGE
FROM ${BASE_IMAGE}
ADD dist/image/inputs.tar /
ENV NODE_ENV=production HOME=/tmp BUN_RUNTIME_TRANSPILER_CACHE_PATH=0 DO_NOT_TRACK=1
WORKDIR /app
USER 10001:10001
EXPOSE 8443 8444
STOPSIGNAL SIGTERM
ENTRYPOINT ["/usr/local/bin/bun", "/app/server/main.ts"]

# The library's lines about connections are not recognized.
s/^#define RETCODE " zk retcode="/#define RETCODE " retcode: "/

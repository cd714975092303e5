# Seed 527
# A worker that dies closes its session.
/^gate_worker_die/,/^}/ s/^\t\tsim_runner_close(&s->runner);$/\t{\n&\n\t\tsim_zk_expire(s->session);\n\t}/

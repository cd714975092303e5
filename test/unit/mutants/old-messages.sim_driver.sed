# Feed an attempt what was meant for the one before.
s/d->state != SIM_TRYING || message->tag.attempt != d->attempt/d->state != SIM_TRYING/

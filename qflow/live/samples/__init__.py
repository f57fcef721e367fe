"""Samples: small clients, each in one manner, for ``qflow check-client``.

``python -m qflow.live.samples.proton_blocking`` and its neighbours take the broker's address from
``AMQP_URL``, the queue's name from ``AMQP_QUEUE`` and the number of messages from ``AMQP_MESSAGES``.  They
are written as the documentation of their library writes such programs, faults included: the card shows them.
"""

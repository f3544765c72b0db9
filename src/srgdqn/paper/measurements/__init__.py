"""What the studies measure beside training: functions of parameters and recorded transitions, and tables of them."""

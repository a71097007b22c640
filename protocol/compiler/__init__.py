"""Write, as Python source, the codec a careful person would have written by hand for one version
of one message, and `exec` it.

Rules the generated code relies on:

* `pos` never decreases and every fixed-size read checks the end by itself, so one comparison at
  the end of a message finds every slice that was cut short.
* Reads past the end raise IndexError or struct.error, text that is not UTF-8 UnicodeDecodeError;
  `message` turns these three into DecodeError, at one place.
* Neighbouring fixed-size values, among them the length of the string or array that follows, are
  one `struct` call.
* Arrays and tagged fields take their counts out of one budget before anything is allocated for
  them: it bounds what a message occupies and how long it takes to read.
"""

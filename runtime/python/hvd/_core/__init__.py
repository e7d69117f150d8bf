# SPDX-License-Identifier: Apache-2.0
"""What the packages of the frameworks share; nothing here is for users, and names may change."""

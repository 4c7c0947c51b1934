"""Inputs of a learner: conversion of examples to tensors, encoders and outlier detection."""
